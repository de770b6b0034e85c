// Catch2 2.13 (Debian 12) and 3.x (newer systems) under one spelling: the one of 3.x.
// Included by every test instead of a Catch2 header. Use Catch::Approx, Catch::Matchers::WithinRel, WithinAbs,
// ContainsSubstring, StartsWith.
#pragma once

#if __has_include(<catch2/catch_test_macros.hpp>)

#include <catch2/catch_approx.hpp>
#include <catch2/catch_message.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <catch2/matchers/catch_matchers_vector.hpp>

#else

#include <catch2/catch.hpp>

namespace Catch {

using Detail::Approx;

namespace Matchers {

/// Version 3's name of version 2's Contains.
inline auto ContainsSubstring(const std::string& text, CaseSensitive::Choice choice = CaseSensitive::Yes) {
  return Contains(text, choice);
}

}  // namespace Matchers
}  // namespace Catch

#endif
