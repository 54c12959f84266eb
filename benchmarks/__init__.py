"""
What June costs, each figure beside a yardstick that is measured in the same process.

``python -m benchmarks`` prints one table. Its unit is T, the cost of a bare trio task.
"""
