"""The catalogue of diagnoses: one family of rules per file, one function per rule."""

from importlib import import_module

from jaxmagic.core.rules.catalogue import FAMILIES, OF_PROGRAMS, RuleInfo, diagnose, observe, rules
from jaxmagic.core.rules.contexts import Failing, Observed

__all__ = ["FAMILIES", "OF_PROGRAMS", "Failing", "Observed", "RuleInfo", "diagnose", "observe", "rules"]

for _family in FAMILIES:
    import_module(f"{__name__}.{_family}")
