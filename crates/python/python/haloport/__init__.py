from haloport._haloport import __version__
