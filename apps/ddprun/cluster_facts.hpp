// Reads what of this machine says which job it is in.
#pragma once

#include "launcher/cluster/cluster_view.hpp"

namespace ddprun::inline app {

// The files are those that the environment names: small ones, each read once. Throws system_error where the machine does
// not tell its addresses.
ClusterView find_cluster_view(Environment environment);

}  // namespace ddprun::inline app
