"""Devices that train and devices that infer, and the transfer of weights from one to the other."""
