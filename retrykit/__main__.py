"""`python -m retrykit`."""

import sys

from retrykit.cli import main

sys.exit(main())
