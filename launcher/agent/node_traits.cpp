#include "launcher/agent/node_traits.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

#include "launcher/plan/gpus.hpp"
#include "launcher/process/child_exec.hpp"
#include "launcher/secret_name.hpp"
#include "launcher/secret_text.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kPrefixes = {"NCCL_", "CUDA_", "PYTHON", "OMP_"};
constexpr std::array<std::string_view, 2> kDifferByNature = {"CUDA_VISIBLE_DEVICES", "NCCL_HOSTID"};

// A value up to this length is sent whole, of a longer one so much of its beginning.
constexpr std::size_t kWholeValue = 80;
constexpr std::size_t kBeginningSent = 60;
constexpr std::size_t kMaxDriverFile = 64 * 1024;

std::uint64_t digest_of(std::string_view bytes) {
    Digest digest;
    digest.add(bytes);
    return digest.value();
}

bool begins_with_one_of(std::string_view name) {
    return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                       [name](std::string_view prefix) { return name.starts_with(prefix); });
}

bool add_part(int fd, off_t at, std::size_t size, Digest& digest) {
    std::string bytes(size, '\0');
    std::size_t done = 0;
    while (done < size) {
        const ssize_t count = ::pread(fd, bytes.data() + done, size - done, at + static_cast<off_t>(done));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        done += static_cast<std::size_t>(count);
    }
    digest.add(bytes);
    return true;
}

void add_file(std::vector<NodeTrait>& traits, const std::string& what, const fs::path& file) {
    std::error_code ignored;
    const std::string path = file.empty() ? "" : fs::absolute(file, ignored).lexically_normal().string();
    traits.push_back({what, path.empty() ? "not found" : variable_trait("", path), true});
    if (auto contents = contents_of(path))
        traits.push_back({what + "'s contents", *std::move(contents), true});
}

std::string gpu_models(const fs::path& driver) {
    std::set<std::string> models;
    std::size_t read = 0;
    std::error_code error;
    for (fs::directory_iterator gpu(driver / "gpus", error), end; !error && gpu != end && read < kMaxGpusRead;
         gpu.increment(error), ++read) {
        const auto text = read_small_file(gpu->path() / "information", kMaxDriverFile);
        const auto model = text ? parse_gpu_model(*text) : std::nullopt;
        if (model) models.insert(*model);
    }
    std::string all;
    for (const std::string& model : models) all += (all.empty() ? "" : ", ") + model;
    return all.empty() ? "none" : all;
}

}  // namespace

std::vector<NodeTrait> node_traits(const LaunchOptions& options, const fs::path& driver) {
    std::vector<NodeTrait> traits;
    if (options.workers.empty()) return traits;
    const std::string* path = find_variable(options.environment, "PATH");
    const std::string executable = find_executable(options.workers.front().argv.front(),
                                                   path != nullptr ? std::optional(*path) : std::nullopt);
    add_file(traits, "the executable", executable);
    if (!options.python_script.empty()) add_file(traits, "the script", options.python_script);
    traits.push_back({"--run-path", options.run_path ? "given" : "not given", true});
    traits.push_back({"--legacy-launch",
                      variable_trait("", options.legacy_launch.empty() ? "not given" : options.legacy_launch),
                      true});
    const auto version = read_small_file(driver / "version", kMaxDriverFile);
    const auto parsed = version ? parse_driver_version(*version) : std::nullopt;
    traits.push_back({"the GPU driver", variable_trait("", parsed.value_or("none"))});
    traits.push_back({"the GPU model", variable_trait("", gpu_models(driver))});
    for (NodeTrait& trait : traits_of(options.environment)) {
        if (traits.size() < kMaxNodeTraits) traits.push_back(std::move(trait));
    }
    return traits;
}

std::vector<NodeTrait> traits_of(const Environment& environment) {
    std::vector<NodeTrait> traits;
    for (const auto& [name, value] : environment) {
        const bool by_nature =
            std::find(kDifferByNature.begin(), kDifferByNature.end(), name) != kDifferByNature.end();
        if (!begins_with_one_of(name) || by_nature || name.size() > kMaxTraitName) continue;
        traits.push_back({name, variable_trait(name, value)});
    }
    return traits;
}

std::string variable_trait(std::string_view name, const std::string& value) {
    if (is_secret_name(name) || masked_text(value) != value) return hidden_value(digest_of(value));
    if (value.size() <= kWholeValue) return value;
    return fmt::format("{}… (digest {:016x})", cut_text(value, kBeginningSent), digest_of(value));
}

std::optional<std::string> contents_of(const fs::path& file) {
    const OwnedDescriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat what {};
    if (!fd || ::fstat(fd.get(), &what) != 0 || !S_ISREG(what.st_mode)) return std::nullopt;
    const auto size = static_cast<std::size_t>(what.st_size);
    const std::size_t head = std::min(size, kContentsRead);
    const std::size_t tail = std::min(size - head, kContentsRead);
    Digest digest;
    if (!add_part(fd.get(), 0, head, digest) ||
        !add_part(fd.get(), static_cast<off_t>(size - tail), tail, digest))
        return std::nullopt;
    return fmt::format("{:016x}, {} bytes", digest.value(), size);
}

}  // namespace launch
}  // namespace ddprun
