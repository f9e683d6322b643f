// is_time_out() tells from a program's last words whether it has ended since it did not want to wait any
// longer: another process may be the reason, which the words do not name. Pure.
#pragma once

#include <string_view>

#include "rendezvous/job/failure.hpp"

namespace ddprun {
inline namespace job {

// Says whether the words are those of a time that was over.
bool is_time_out(std::string_view words);

// Says whether some of the failed worker's words are, by its error file or its last lines.
bool names_time_out(const Failure& failure);

}  // namespace job
}  // namespace ddprun
