"""The methods the paper compares with, one file each, behind the same recipe strings as the searches."""
