"""`python -m agentctl`."""

from agentctl.cli.main import main

raise SystemExit(main())
