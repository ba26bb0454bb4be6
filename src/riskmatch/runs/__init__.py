"""What a run is and what it leaves on disk: configuration, records, predictions, lock."""
