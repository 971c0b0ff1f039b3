"""The methods the paper compares with, one file each: stages like the searches."""
