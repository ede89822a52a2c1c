"""The models: one package or module for each family of algorithms, one interface for all (`base`)."""

# Every class that a saved model can be of. `load` makes no others.
MODELS = {
    "ALS": "discreet.models.als:ALS",
    "DPALS": "discreet.models.als:DPALS",
    "DPCleansedSVD": "discreet.models.spectral:DPCleansedSVD",
    "DPFrankWolfe": "discreet.models.frank_wolfe:DPFrankWolfe",
    "DPGradientDescent": "discreet.models.gradient:DPGradientDescent",
    "DPSGD": "discreet.models.gradient:DPSGD",
    "DPSVD": "discreet.models.spectral:DPSVD",
    "FrankWolfe": "discreet.models.frank_wolfe:FrankWolfe",
    "GradientDescent": "discreet.models.gradient:GradientDescent",
    "MeanRating": "discreet.models.baselines:MeanRating",
    "OneBit": "discreet.models.one_bit:OneBit",
    "Popularity": "discreet.models.baselines:Popularity",
    "PublishedDPALS": "discreet.models.als:PublishedDPALS",
    "PublishedDPCleansedSVD": "discreet.models.spectral:PublishedDPCleansedSVD",
    "PublishedDPFrankWolfe": "discreet.models.frank_wolfe:PublishedDPFrankWolfe",
    "PublishedDPGradientDescent": "discreet.models.gradient:PublishedDPGradientDescent",
    "PublishedDPSVD": "discreet.models.spectral:PublishedDPSVD",
    "SVD": "discreet.models.spectral:SVD",
}
