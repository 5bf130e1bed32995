"""Tables, words, pictures and the report of an evaluation."""
