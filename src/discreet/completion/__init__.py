"""The models: one package or module for each family of algorithms, one interface for all (`base`)."""

# Every class that a saved model can be of. `load` makes no others.
MODELS = {
    "ALS": "discreet.completion.als:ALS",
    "DPALS": "discreet.completion.als:DPALS",
    "DPCleansedSVD": "discreet.completion.spectral:DPCleansedSVD",
    "DPFrankWolfe": "discreet.completion.frank_wolfe:DPFrankWolfe",
    "DPGradientDescent": "discreet.completion.gradient:DPGradientDescent",
    "DPSGD": "discreet.completion.gradient:DPSGD",
    "DPSVD": "discreet.completion.spectral:DPSVD",
    "FrankWolfe": "discreet.completion.frank_wolfe:FrankWolfe",
    "GradientDescent": "discreet.completion.gradient:GradientDescent",
    "MeanRating": "discreet.completion.baselines:MeanRating",
    "OneBit": "discreet.completion.one_bit:OneBit",
    "Popularity": "discreet.completion.baselines:Popularity",
    "PublishedDPALS": "discreet.completion.als:PublishedDPALS",
    "PublishedDPCleansedSVD": "discreet.completion.spectral:PublishedDPCleansedSVD",
    "PublishedDPFrankWolfe": "discreet.completion.frank_wolfe:PublishedDPFrankWolfe",
    "PublishedDPGradientDescent": "discreet.completion.gradient:PublishedDPGradientDescent",
    "PublishedDPSVD": "discreet.completion.spectral:PublishedDPSVD",
    "SVD": "discreet.completion.spectral:SVD",
}
