"""Jaxprs, StableHLO and HLO as records, linked to the source."""
