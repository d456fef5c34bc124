"""Learners, actors and their network as one seeded schedule of events in virtual time."""
