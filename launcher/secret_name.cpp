#include "launcher/secret_name.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace ddprun::inline launch {
namespace {

// Open MPI's key of a job's transports goes by the last of them.
constexpr std::array<std::string_view, 9> kSecretWords = {
    "SECRET", "TOKEN", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "JWT", "KEY", "PRECONDITION"};

// InfiniBand's partitions have such keys, which are numbers that everybody may know.
constexpr std::string_view kPartitionKey = "_PKEY";

}  // namespace

bool is_secret_name(std::string_view name) {
    std::string upper(name);
    for (char& letter : upper) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    if (upper.ends_with(kPartitionKey)) upper.resize(upper.size() - kPartitionKey.size());
    return std::any_of(kSecretWords.begin(), kSecretWords.end(),
                       [&upper](std::string_view word) { return upper.find(word) != upper.npos; });
}

}  // namespace ddprun::inline launch
