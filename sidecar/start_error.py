"""Why a process of ours does not come up."""


class StartError(RuntimeError):
    """It cannot start; the text is one line that says why and what to do."""
