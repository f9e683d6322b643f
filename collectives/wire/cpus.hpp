// How many CPUs there are to share.
#pragma once

namespace ddprun::inline detail {

// What the control group allows, in whole CPUs; INT_MAX where it sets no limit.
int cpus_of_control_group();

// What this machine has and the control group allows.
int cpus_of_this_machine();

}  // namespace ddprun::inline detail
