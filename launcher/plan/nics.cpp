#include "launcher/plan/nics.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "launcher/plan/system_files.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace fs = std::filesystem;

// Two devices are near in such steps: unknown, on the same NUMA node, or so many bridges in common.
constexpr std::size_t kSameNode = 1;

std::size_t nearness(const PciPlace& a, const PciPlace& b) {
    const auto common = static_cast<std::size_t>(
        std::mismatch(a.path.begin(), a.path.end(), b.path.begin(), b.path.end()).first - a.path.begin());
    // The root complex alone says nothing: a virtual machine has all devices at one.
    if (common > 1) return kSameNode + common;
    return a.node >= 0 && a.node == b.node ? kSameNode : 0;
}

bool has_port_up(const fs::path& nic) {
    bool knows = false;
    for (const std::string& port : names_in(nic / "ports")) {
        const auto state = line_in(nic / "ports" / port / "state");
        if (!state) continue;
        knows = true;
        if (state->find("ACTIVE") != std::string::npos) return true;
    }
    return !knows;
}

// mlx5_2 comes before mlx5_10.
bool is_first_of_nics(const Nic& a, const Nic& b) {
    return std::pair(a.name.size(), std::string_view(a.name)) <
           std::pair(b.name.size(), std::string_view(b.name));
}

}  // namespace

std::optional<PciPlace> read_pci_place(const fs::path& device) {
    std::error_code error;
    const fs::path folder = fs::canonical(device, error);
    if (error) return std::nullopt;
    PciPlace place;
    for (const fs::path& part : folder) {
        if (!place.path.empty() || part.string().starts_with("pci")) place.path.push_back(part.string());
    }
    if (place.path.size() < 2) return std::nullopt;
    place.address = place.path.back();
    place.node = number_in(folder / "numa_node").value_or(-1);
    return place;
}

std::vector<Nic> find_nics(const fs::path& root) {
    std::vector<Nic> nics;
    const fs::path folder = root / "sys/class/infiniband";
    for (std::string& name : names_in(folder)) {
        auto place = read_pci_place(folder / name / "device");
        if (place && has_port_up(folder / name)) nics.push_back({std::move(name), *std::move(place)});
    }
    std::sort(nics.begin(), nics.end(), is_first_of_nics);
    return nics;
}

std::vector<std::string> nearest_nics(const std::vector<std::optional<PciPlace>>& gpus,
                                      const std::vector<Nic>& nics) {
    std::vector<std::string> names;
    std::map<std::vector<std::size_t>, std::size_t> turns;
    for (const auto& gpu : gpus) {
        std::vector<std::size_t> best;
        std::size_t most = 0;
        for (std::size_t i = 0; gpu && i < nics.size(); ++i) {
            const std::size_t near = nearness(*gpu, nics[i].place);
            if (near > most) best.clear();
            most = std::max(most, near);
            if (near == most) best.push_back(i);
        }
        const bool is_known = gpu && !best.empty() && (most > 0 || nics.size() == 1);
        names.push_back(is_known ? nics[best[turns[best]++ % best.size()]].name : "");
    }
    return names;
}

}  // namespace launch
}  // namespace ddprun
