"""`python -m operators` is the command `windows`."""

import sys

from operators.command.main import main

sys.exit(main())
