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
    "Popularity": "discreet.completion.baselines:Popularity",
    "PublishedCleansedSVD": "discreet.completion.spectral:PublishedCleansedSVD",
    "PublishedDPALS": "discreet.completion.als:PublishedDPALS",
    "PublishedDPSVD": "discreet.completion.spectral:PublishedDPSVD",
    "PublishedGradientDescent": "discreet.completion.gradient:PublishedGradientDescent",
    "SVD": "discreet.completion.spectral:SVD",
    "PublishedDPFrankWolfe": "discreet.completion.frank_wolfe:PublishedDPFrankWolfe",
}
