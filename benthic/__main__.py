"""``python -m benthic`` is the command ``benthic``."""

from benthic.cli.main import main

if __name__ == "__main__":
    main()
