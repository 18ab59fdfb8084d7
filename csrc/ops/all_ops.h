// Every op builder.
#pragma once

#include <ops/creation.h>
#include <ops/elementwise.h>
#include <ops/random.h>
#include <ops/shape.h>
