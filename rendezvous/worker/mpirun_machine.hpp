// MpirunMachine is where Open MPI's mpirun runs, as it tells all its tasks until its version 4. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace base {

// kMpirunUri names the variable that holds
// "1106640896.0;tcp://10.0.2.15,192.168.1.4:36347;tcp6://[fd00::2]:55765".
inline constexpr const char* kMpirunUri = "OMPI_MCA_orte_hnp_uri";

// Returns the IPv4 addresses in that variable's value; none in a text of another form.
std::vector<std::string> addresses_of_mpirun(std::string_view uri);

struct MpirunMachine {
    std::string address;   // of mpirun's addresses, the one closest to an address of the caller's machine
    bool is_this = false;  // mpirun runs on the caller's machine
};

// Finds where mpirun runs. `addresses` are mpirun's, one at least; `own` are all of the caller's machine.
// mpirun is here where all its addresses are own, since every machine may have one of them (a bridge of
// containers).
MpirunMachine find_mpirun(std::vector<std::string> addresses, const std::vector<std::string>& own);

}  // namespace base
}  // namespace ddprun
