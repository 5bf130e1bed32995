"""From candidates to a decision: what competes, how it is judged, and the rule."""
