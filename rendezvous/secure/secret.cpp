#include "rendezvous/secure/secret.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <set>

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "rendezvous/text/split.hpp"

namespace ddprun {
inline namespace job {

namespace {

constexpr std::string_view kPurpose = "ddprun psk 1";
constexpr std::string_view kMeshPurpose = "ddprun mesh 1";
constexpr std::string_view kAround = " \t\r\n";

// What --make-secret makes is this, the hexadecimal text of a key, and the checksum's.
constexpr std::string_view kMadeMark = "ddprun-";
constexpr std::size_t kMadeKey = std::size_t{2} * SecretKey::kBytes;
constexpr std::size_t kChecksumBytes = 4;
// Random letters, of whatever alphabet, are more; a text of fewer is none.
constexpr std::size_t kMinVariety = 6;
constexpr std::string_view kSaltPurpose = "ddprun salt 1";

std::string_view without_blanks(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(kAround);
    if (begin == text.npos) return {};
    return text.substr(begin, text.find_last_not_of(kAround) + 1 - begin);
}

const unsigned char* data_of_text(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

SecretKey derived_key(std::string_view parent, std::initializer_list<std::string_view> words) {
    SecretKey key;
    crypto_generichash_blake2b_state state;
    crypto_generichash_blake2b_init(&state, data_of_text(parent), parent.size(), SecretKey::kBytes);
    for (const std::string_view word : words)
        crypto_generichash_blake2b_update(&state, data_of_text(word), word.size());
    crypto_generichash_blake2b_final(&state, key.data(), SecretKey::kBytes);
    sodium_memzero(&state, sizeof state);
    return key;
}

std::string made_text(std::string_view key) {
    std::array<unsigned char, crypto_generichash_blake2b_BYTES_MIN> sum{};
    crypto_generichash_blake2b(sum.data(), sum.size(), data_of_text(key), key.size(), nullptr, 0);
    std::string text = std::string(kMadeMark).append(key);
    for (std::size_t i = 0; i < kChecksumBytes; ++i) text += fmt::format("{:02x}", sum[i]);
    return text;
}

std::string_view key_in(std::string_view made) { return made.substr(kMadeMark.size(), kMadeKey); }

// A text that somebody has chosen may be guessed; each guess shall cost as much as this does.
std::string stretched(std::string_view secret, std::string_view run_id) {
    std::array<unsigned char, crypto_pwhash_SALTBYTES> salt{};
    crypto_generichash_blake2b_state state;
    crypto_generichash_blake2b_init(&state, nullptr, 0, salt.size());
    for (const std::string_view word : {kSaltPurpose, run_id})
        crypto_generichash_blake2b_update(&state, data_of_text(word), word.size());
    crypto_generichash_blake2b_final(&state, salt.data(), salt.size());
    std::string key(SecretKey::kBytes, '\0');
    if (crypto_pwhash_argon2id(reinterpret_cast<unsigned char*>(key.data()), key.size(), secret.data(),
                               secret.size(), salt.data(), crypto_pwhash_argon2id_OPSLIMIT_INTERACTIVE,
                               crypto_pwhash_argon2id_MEMLIMIT_INTERACTIVE,
                               crypto_pwhash_argon2id_ALG_ARGON2ID13) != 0)
        fail_errno(
            ENOMEM,
            "the secret is one that somebody has chosen, and to make a key of it takes 64 MiB of memory; "
            "ddprun --make-secret makes one that takes none");
    return key;
}

}  // namespace

std::variant<std::string, std::string_view> parse_secret(std::string_view text) {
    constexpr std::string_view kEditorsMark = "\xef\xbb\xbf";
    if (text.starts_with(kEditorsMark)) text.remove_prefix(kEditorsMark.size());
    text = without_blanks(text);
    if (text.empty()) return std::string_view("is empty");
    if (text.size() > kMaxSecretText) return std::string_view("is longer than 1024 characters");
    if (text.find_first_of("\r\n") != text.npos) return std::string_view("is more than one line of text");
    const bool is_text = std::none_of(text.begin(), text.end(), [](char letter) {
        return static_cast<unsigned char>(letter) < ' ' || letter == 0x7f;
    });
    if (!is_text) return std::string_view("has characters that are no text, a tab perhaps");
    const bool is_made = text.starts_with(kMadeMark);
    if (is_made && text != made_text(key_in(text)))
        return std::string_view("is not as ddprun has made it: something is missing or was changed");
    if (text.size() < kMinSecretText) return std::string_view("is shorter than 22 characters");
    if (std::set<char>(text.begin(), text.end()).size() < kMinVariety)
        return std::string_view("has too few different characters to be made at random");
    return std::string(text);
}

SecretKey job_key(std::string_view secret, std::string_view run_id) {
    std::string parent =
        secret.starts_with(kMadeMark) ? std::string(key_in(secret)) : stretched(secret, run_id);
    const SecretKey key = derived_key(parent, {kPurpose, run_id});
    wipe(parent);
    return key;
}

SecretKey mesh_key(const SecretKey& job, std::string_view job_id, int round) {
    const auto number = static_cast<std::uint32_t>(round);
    std::array<char, sizeof(number)> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(number >> (8 * i));
    return derived_key({reinterpret_cast<const char*>(job.data()), SecretKey::kBytes},
                       {kMeshPurpose, job_id, {bytes.data(), bytes.size()}});
}

std::string make_secret_text() { return made_text(hex_of(SecretKey::fresh())); }

// --- where it comes from

namespace {

using Found = std::variant<std::optional<std::string>, std::string>;

// One byte more shows that there is more.
constexpr std::size_t kMostRead = kMaxSecretText + 64;

std::string error_text(int number) { return std::strerror(number); }

Found secret_of(const std::string& source, std::string& text) {
    auto parsed = parse_secret(text);
    wipe(text);
    if (const auto* wrong = std::get_if<std::string_view>(&parsed))
        return fmt::format("{}: the secret {}; ddprun --make-secret makes one", source, *wrong);
    return std::optional(std::get<std::string>(std::move(parsed)));
}

// Says why others could read or change what is in the file.
std::string openness(const std::string& path, const struct stat& facts) {
    if (!S_ISREG(facts.st_mode)) return "is no regular file";
    if (facts.st_uid != ::geteuid() && facts.st_uid != 0)
        return fmt::format("belongs to another user (uid {})", facts.st_uid);
    if ((facts.st_mode & 077) != 0)
        return fmt::format("is open to others (mode {:04o}); chmod 600 {}", facts.st_mode & 07777, path);
    return {};
}

std::variant<std::string, int> read_bounded(int fd) {
    std::string text(kMostRead, '\0');
    std::size_t size = 0;
    while (size < text.size()) {
        const ssize_t count = ::read(fd, text.data() + size, text.size() - size);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return errno;
        if (count == 0) break;
        size += static_cast<std::size_t>(count);
    }
    text.resize(size);
    return text;
}

Found secret_of_file(const std::string& source, const std::string& path, bool may_be_absent) {
    // A FIFO must not hold the launcher up.
    const OwnedDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file) {
        const int why = errno;
        if (may_be_absent && (why == ENOENT || why == ENOTDIR)) return std::optional<std::string>();
        return fmt::format("{}: {}", source, error_text(why));
    }
    struct stat facts {};
    if (::fstat(file.get(), &facts) != 0) return fmt::format("{}: {}", source, error_text(errno));
    if (const std::string open = openness(path, facts); !open.empty())
        return fmt::format("{}: {}", source, open);
    auto text = read_bounded(file.get());
    if (const int* why = std::get_if<int>(&text)) return fmt::format("{}: {}", source, error_text(*why));
    return secret_of(source, std::get<std::string>(text));
}

// It reads byte by byte: what is behind the line is the workers'.
Found secret_of_stdin() {
    const std::string source = "--secret-file -";
    const auto deadline = std::chrono::steady_clock::now() + kStdinTimeout;
    std::string line;
    while (line.size() < kMostRead) {
        pollfd ready{STDIN_FILENO, POLLIN, 0};
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(time_until(deadline)).count();
        const int polled = ::poll(&ready, 1, static_cast<int>(left));
        if (polled < 0 && errno == EINTR) continue;
        if (polled == 0)
            return fmt::format("{}: no line came on stdin within {} s", source, kStdinTimeout.count());
        char letter = '\n';
        const ssize_t count = ::read(STDIN_FILENO, &letter, 1);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return fmt::format("{}: {}", source, error_text(errno));
        if (count == 0 || letter == '\n') break;
        line += letter;
    }
    return secret_of(source, line);
}

}  // namespace

std::variant<std::optional<std::string>, std::string> find_secret(const SecretSources& sources) {
    if (sources.file == "-") return secret_of_stdin();
    if (!sources.file.empty()) return secret_of_file("--secret-file " + sources.file, sources.file, false);
    if (!sources.variable.empty()) {
        std::string text = sources.variable;
        return secret_of("DDPRUN_SECRET", text);
    }
    if (sources.own_file.empty()) return std::optional<std::string>();
    return secret_of_file(sources.own_file.string(), sources.own_file.string(), true);
}

std::filesystem::path own_secret_file(const char* xdg_config_home, const char* home) {
    const bool has_config = xdg_config_home != nullptr && *xdg_config_home == '/';
    if (!has_config && (home == nullptr || *home == '\0')) return {};
    return (has_config ? std::filesystem::path(xdg_config_home) : std::filesystem::path(home) / ".config") /
           "ddprun" / "secret";
}

std::optional<std::string> make_secret_file(const std::filesystem::path& path) {
    if (path.empty()) return "no home folder is known: set HOME or XDG_CONFIG_HOME";
    const auto failed = [](const std::filesystem::path& where, int number) {
        return fmt::format("{}: {}", where.string(), error_text(number));
    };
    std::error_code error;
    std::filesystem::create_directories(path.parent_path().parent_path(), error);
    if (error) return failed(path.parent_path().parent_path(), error.value());
    if (::mkdir(path.parent_path().c_str(), 0700) != 0 && errno != EEXIST)
        return failed(path.parent_path(), errno);
    const OwnedDescriptor file(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file && errno == EEXIST) return path.string() + " is there already, and is kept";
    if (!file) return failed(path, errno);
    std::string text = make_secret_text() + "\n";
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    const int why = written < 0 ? errno : ENOSPC;
    const bool is_whole = written == static_cast<ssize_t>(text.size()) && ::fsync(file.get()) == 0;
    wipe(text);
    if (is_whole) return std::nullopt;
    ::unlink(path.c_str());
    return failed(path, why);
}

// --- whether it is asked for

const std::string kNoSecretAdvice =
    "no secret: whoever reaches this node's port can take part in the job; "
    "ddprun --make-secret makes one for all nodes that share this home folder, --auth off is content without";

namespace {

// A row for each name in the site's file but rsh.
struct SiteFlag {
    std::string_view name, strict, lax;
    bool SitePolicy::*flag;
};
constexpr SiteFlag kSiteFlags[] = {{"auth", "required", "auto", &SitePolicy::requires_secret},
                                   {"store", "door", "auto", &SitePolicy::seals_store},
                                   {"key", "job", "auto", &SitePolicy::keys_per_job},
                                   {"health", "loopback", "any", &SitePolicy::health_on_loopback}};

}  // namespace

std::variant<SitePolicy, std::string> parse_site_policy(std::string_view text) {
    SitePolicy policy;
    for (int number = 1; !text.empty(); ++number) {
        const std::string_view whole = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(whole.size() + 1, text.size()));
        const std::string_view line = without_blanks(whole.substr(0, whole.find('#')));
        if (line.empty()) continue;
        const std::size_t equals = line.find('=');
        const std::string_view name = without_blanks(line.substr(0, equals));
        std::string_view value = equals == line.npos ? "" : without_blanks(line.substr(equals + 1));
        if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
            value = value.substr(1, value.size() - 2);
        const auto refused = [number](const std::string& why) {
            return fmt::format("{}, line {}: {}", kSiteFile, number, why);
        };
        if (name == "rsh") {
            for (const std::string_view shell : split_at(value, ','))
                policy.shells.emplace_back(without_blanks(shell));
            if (std::ranges::find(policy.shells, std::string()) == policy.shells.end()) continue;
            return refused("rsh must be commands with commas between");
        }
        const auto row = std::ranges::find(kSiteFlags, name, &SiteFlag::name);
        if (row == std::end(kSiteFlags)) return refused("must be auth, store, key, health or rsh = VALUE");
        if (value != row->strict && value != row->lax)
            return refused(fmt::format("{} must be {} or {}", name, row->strict, row->lax));
        policy.*row->flag = value == row->strict;
    }
    return policy;
}

std::variant<Auth, std::string> agree_on_auth(Auth user, const SitePolicy& site) {
    if (!site.requires_secret) return user;
    if (user == Auth::off)
        return fmt::format(
            "--auth off: {} says auth = required; leave the option out, and give a secret (ddprun --make-secret makes one)",
            kSiteFile);
    return Auth::required;
}

std::variant<Unprotected, std::string> without_secret(const SitePolicy& agreed, int nnodes, bool is_open) {
    if (nnodes == 1 || agreed.auth == Auth::off) return Unprotected::nothing;
    if (agreed.auth == Auth::required)
        return fmt::format(
            "{}no secret is known here; ddprun --make-secret makes one, "
            "--secret-file or DDPRUN_SECRET gives it to a node",
            agreed.requires_secret ? fmt::format("{} says auth = required: ", kSiteFile)
                                   : "--auth required: ");
    return is_open ? Unprotected::advice : Unprotected::nothing;
}

bool wants_sealed_store(const SitePolicy& agreed, bool is_given) {
    return agreed.seals_store || agreed.auth == Auth::required ||
           (agreed.auth == Auth::automatic && is_given);
}

}  // namespace job
}  // namespace ddprun
