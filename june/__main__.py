"""
``python -m june``.
"""

import sys

from june.cli import main

sys.exit(main())
