"""DomainBed's protocol in full on one of its datasets, for those who have it."""
