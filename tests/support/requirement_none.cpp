// For tests that run everywhere.
#include "tests/support/requirement.h"

std::string tallsketch::test::missing_requirement() { return {}; }
