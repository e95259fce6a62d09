"""Every reported number of a run, computed from the Program and its Timeline after the engine is done."""
