"""
The tour: a model plans, writes a checklist, and a function counts it.

    OPENAI_API_KEY=... june run examples/deploy.py --input service="web, then api" --resume deploy.json --keep

Run it twice, and no model is asked the second time. Change the prompt of `checklist`, and only that is asked
again. For another model see models.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

from june import Agent, step

sys.path.insert(0, str(Path(__file__).parent))
from models import chosen  # it stands beside this file

writer = Agent(model=chosen(), instructions="Be brief and concrete.")


@step(id="plan", agent=writer)
def plan(service: str) -> str:
    return f"Plan the deploy of {service}"


@step(id="checklist", agent=writer)
def checklist(plan: str) -> str:
    return f"Write a checklist, with a line that begins with '- ' for each item, for:\n{plan}"


@step(id="count")
def count(checklist: str) -> int:
    return sum(line.startswith("- ") for line in checklist.splitlines())
