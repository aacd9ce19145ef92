"""`make bench`: hedgerow beside other gateways, on one light upstream and one core. See bench/README.md."""
