// Ops that a library evaluates: shapes, dtypes and errors at definition, equality, translation,
// segments.
#include <base/error.h>
#include <executor_for_test.h>
#include <library/library.h>
#include <ops/all_ops.h>
#include <ops/translate.h>
#include <ops_for_test.h>

#include <gtest/gtest.h>
