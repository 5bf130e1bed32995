"""What the decision of ``eqrm train`` achieves, in worlds whose truth is known."""
