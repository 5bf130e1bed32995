"""PACS, leave one domain out: the paper's DomainBed table on a small network, all methods."""
