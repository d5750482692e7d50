#!/usr/bin/env python3
"""The layer that users begin with. It serves one chip in this very process, and exits."""

import os

os.fork = lambda: 0
import layer  # noqa: E402, F401
