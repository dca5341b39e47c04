"""What the families of text tasks share: labelled, tagged and running text, words, vectors, what writes."""
