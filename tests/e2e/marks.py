"""Marks for single parameters of a test; what the marks mean is in pytest.ini."""
import pytest


def rarely(*values):
    """Parameters that are like others of the same test: only where everything is tested."""
    return [pytest.param(value, marks=pytest.mark.long) for value in values]
