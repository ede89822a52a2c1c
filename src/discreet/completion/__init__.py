"""The models: one package or module for each family of algorithms, one interface for all (`base`)."""

# Every class that a saved model can be of. `load` makes no others.
MODELS = {
    "ALS": "discreet.completion.als:ALS",
    "DPALS": "discreet.completion.als:DPALS",
    "DPCleansedSVD": "discreet.completion.spectral:DPCleansedSVD",
    "DPSVD": "discreet.completion.spectral:DPSVD",
    "MeanRating": "discreet.completion.baselines:MeanRating",
    "Popularity": "discreet.completion.baselines:Popularity",
    "PublishedCleansedSVD": "discreet.completion.spectral:PublishedCleansedSVD",
    "PublishedDPALS": "discreet.completion.als:PublishedDPALS",
}
