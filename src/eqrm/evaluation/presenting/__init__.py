"""Tables, text, figures and the report of an evaluation."""
