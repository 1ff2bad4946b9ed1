module txnsim.test/txnsimtest

go 1.26.0
