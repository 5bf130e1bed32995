"""Objectives as DomainBed updates them, where its code differs from ours: ``preset: domainbed``."""
