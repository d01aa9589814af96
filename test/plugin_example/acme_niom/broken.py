"""A plug-in that needs a package which is not installed."""

import acme_network_that_nobody_has  # noqa: F401
