"""The paper's protocol for iWildCam and OGB-MolPCBA of WILDS, for those who have them."""
