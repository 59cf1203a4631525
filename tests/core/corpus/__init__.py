"""Programs whose results must not depend on whether somebody looks: functions of a random array, by family."""
