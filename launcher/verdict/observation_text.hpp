// to_json() and parse_observations(): what agents tell node 0 of their ranks. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/verdict/observation.hpp"

namespace ddprun {
inline namespace launch {

inline constexpr std::size_t kMaxObservationsText = 4 * 1024 * 1024;

// Returns the observation without what is beyond the limits of its lists.
Observation within_limits(Observation one);

// Returns one JSON object of at most `limit` bytes. Of what does not fit threads are left out first, then the
// outer frames, then all words. There are kMaxObservations at most.
std::string to_json(const std::vector<Observation>& observations, std::size_t limit = kMaxObservationsText);

// Returns nothing for a text that to_json() does not make: of another form, too long, with numbers out of
// range, or with one rank twice.
std::optional<std::vector<Observation>> parse_observations(std::string_view text);

}  // namespace launch
}  // namespace ddprun
