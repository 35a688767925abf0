module patches

go 1.24.0
