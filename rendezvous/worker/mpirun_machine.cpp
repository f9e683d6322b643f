#include "rendezvous/worker/mpirun_machine.hpp"

#include <algorithm>
#include <bit>
#include <boost/asio/ip/address_v4.hpp>

#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/text/split.hpp"

namespace ddprun {
inline namespace base {
namespace {

// Counts the leading bits that two addresses share; none where one of them is of another family.
int shared_bits(const std::string& one, const std::string& other) {
    boost::system::error_code wrong, also_wrong;
    const auto first = boost::asio::ip::make_address_v4(one, wrong);
    const auto second = boost::asio::ip::make_address_v4(other, also_wrong);
    return wrong || also_wrong ? 0 : std::countl_zero(first.to_uint() ^ second.to_uint());
}

}  // namespace

std::vector<std::string> addresses_of_mpirun(std::string_view uri) {
    std::vector<std::string> addresses;
    for (std::string_view part : split_at(uri, ';')) {
        constexpr std::string_view kScheme = "tcp://";
        if (!part.starts_with(kScheme)) continue;
        part.remove_prefix(kScheme.size());
        for (const std::string_view address : split_at(part.substr(0, part.rfind(':')), ',')) {
            if (is_valid_host(address)) addresses.emplace_back(address);
        }
    }
    return addresses;
}

MpirunMachine find_mpirun(std::vector<std::string> addresses, const std::vector<std::string>& own) {
    const auto is_own = [&own](const std::string& address) { return std::ranges::count(own, address) > 0; };
    MpirunMachine machine;
    machine.is_this = std::ranges::all_of(addresses, is_own);
    if (!machine.is_this) std::erase_if(addresses, is_own);
    machine.address = addresses.front();
    int most = 0;
    for (const std::string& address : addresses) {
        for (const std::string& here : own) {
            const int shared = shared_bits(address, here);
            if (shared <= most) continue;
            most = shared;
            machine.address = address;
        }
    }
    return machine;
}

}  // namespace base
}  // namespace ddprun
