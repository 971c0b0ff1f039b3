from hypothesis import settings

# Shared machines are noisy and the first example may import scikit-learn: no deadline. Same examples every run.
settings.register_profile("suite", deadline=None, derandomize=True)
settings.load_profile("suite")
