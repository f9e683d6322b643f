#include "launcher/secret_name.hpp"

#include <vector>

#include "rendezvous/text/split.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// Wherever they stand in a name. Open MPI's key of a job's transports goes by the last of them.
constexpr TextTable<24> kSecretParts = {
    "SECRET",       "PASSWORD",       "PASSWD",       "PASSPHRASE", "PASSCODE",    "CREDENTIAL",
    "JWT",          "AUTHORIZATION",  "APIKEY",       "PASSKEY",    "WEBHOOK",     "ACCESSKEY",
    "DATABASE_URL", "CONNECTION_STR", "PRECONDITION", "MNEMONIC",   "SEED_PHRASE", "SEEDPHRASE",
    "SSHKEY",       "PRIVKEY",        "PRIVATEKEY",   "MASTERKEY",  "SIGNINGKEY",  "ENCRYPTIONKEY"};

// Whole words of a name, which mean something else within another word.
constexpr TextTable<15> kSecretWords = {"CREDS",  "CRED",      "DSN",    "SAS",     "PAT",
                                        "COOKIE", "SIGNATURE", "PSK",    "PSWD",    "PSW",
                                        "OTP",    "BEARER",    "PASSIN", "PASSOUT", "HMAC"};
// Likewise, in a name of several words. PWD alone is a folder, AUTH alone a choice, SK alone a language.
constexpr TextTable<3> kSecretBesideOthers = {"PWD", "AUTH", "SK"};
// A whole name. With other words it says where threads or memory stay.
constexpr std::string_view kSecretAlone = "PIN";
// Ends of words (PGPASS, MYPW), and words that end so and are none.
constexpr TextTable<3> kSecretEnds = {"PASS", "PW", "PWD"};
constexpr TextTable<7> kOtherEnds = {"BYPASS",   "COMPASS",  "SURPASS", "LOWPASS",
                                     "HIGHPASS", "BANDPASS", "OLDPWD"};
// Beginnings of words, as in REDIS_URL: addresses that usually have the password within.
constexpr TextTable<6> kServices = {"REDIS", "MONGO", "POSTGRES", "MYSQL", "BROKER", "AMQP"};

// At its end a name says with them what it is instead: where a secret lies, of which kind it is, or what is
// wrong with it.
constexpr TextTable<21> kHarmlessEnds = {"FILE",  "PATH", "DIR",  "ERROR", "EXCEPTION", "WARNING", "STDIN",
                                         "NAME",  "TYPE", "MODE", "HOST",  "PORT",      "METHOD",  "ENABLED",
                                         "COUNT", "SIZE", "LEN",  "SOCK",  "LENGTH",    "LIMIT",   "IDS"};

// What makes a key of a text, a pass through a network or a token of a language model out of KEY, PASS and
// TOKEN.
constexpr TextTable<68> kOrdinary = {
    "N",      "NUM",        "MAX",     "MIN",     "TOTAL",    "MEAN",   "AVG",     "PER",       "IS",
    "NO",     "PAD",        "EOS",     "BOS",     "UNK",      "SEP",    "CLS",     "MASK",      "MASKED",
    "IMAGE",  "AUDIO",      "VIDEO",   "TEXT",    "VISION",   "PATCH",  "SPECIAL", "EMBED",     "EMBEDDING",
    "INDEX",  "LOSS",       "DROPOUT", "RATE",    "LEVEL",    "WISE",   "BATCH",   "START",     "STOP",
    "NEXT",   "LAST",       "FIRST",   "SECOND",  "INPUT",    "OUTPUT", "PROMPT",  "TARGET",    "LABEL",
    "LOW",    "HIGH",       "BAND",    "FORWARD", "BACKWARD", "SINGLE", "MULTI",   "BUDGET",    "DIM",
    "PUBLIC", "SORT",       "STATE",   "DICT",    "CACHE",    "METRIC", "COLUMN",  "PARTITION", "FOREIGN",
    "CERT",   "UNEXPECTED", "MISSING", "FEATURE", "WARMUP"};
// What makes them secret nonetheless, and several of them, too.
constexpr TextTable<9> kOfAccess = {"API",     "ACCESS",     "AUTH",    "PRIVATE", "SIGNING",
                                    "REFRESH", "ENCRYPTION", "SESSION", "BEARER"};

bool has_word_of(const auto& list, const std::vector<std::string_view>& words) {
    return has_any(words, [&list](std::string_view word) { return is_among(list, word); });
}

// TOKEN, KEY and PASS, of which most are no secrets.
bool is_secret_by_company(const std::vector<std::string_view>& words) {
    const bool of_access = has_word_of(kOfAccess, words);
    if (!of_access && has_word_of(kOrdinary, words)) return false;
    return has_any(words, [&](std::string_view word) {
        const auto token = word.find("TOKEN");
        const std::string_view behind = token == word.npos ? "" : word.substr(token + 5);
        const bool is_plural = behind == "S" || word == "KEYS";
        const bool is_secret = token != word.npos ? !behind.starts_with("IZ")
                                                  : word == "PASS" || (of_access && word.starts_with("KEY"));
        return is_secret && (of_access || !is_plural);
    });
}

}  // namespace

std::string plain_name(std::string_view name) {
    std::string plain;
    char last = 'A';
    for (const char letter : name.substr(std::min(name.find_first_not_of('-'), name.size()))) {
        if (std::isupper(static_cast<unsigned char>(letter)) != 0 &&
            std::islower(static_cast<unsigned char>(last)) != 0)
            plain += '_';
        plain += is_letter_or_digit(letter)
                     ? static_cast<char>(std::toupper(static_cast<unsigned char>(letter)))
                     : '_';
        last = letter;
    }
    return plain;
}

bool is_secret_name(std::string_view name) {
    const std::string plain = plain_name(name.substr(name.size() - std::min(name.size(), kLongestName)));
    const std::vector<std::string_view> words = split_at(plain, '_');
    if (is_among(kHarmlessEnds, words.back()) || plain.starts_with("MAKE_") || plain.ends_with("TOKEN_ID"))
        return false;
    if (has_any(kSecretParts, [&plain](std::string_view part) { return plain.find(part) != plain.npos; }))
        return true;
    const bool is_long = words.size() > 1;
    if (plain == kSecretAlone) return true;
    const bool is_address = is_long && (words.back() == "URL" || words.back() == "URI");
    const bool is_private = words.back() == "KEY" || is_among(words, "PRIVATE");
    if (is_long && is_private && !has_word_of(kOrdinary, words)) return true;
    return is_secret_by_company(words) || has_any(words, [&](std::string_view word) {
               const auto begins = [word](std::string_view one) { return word.starts_with(one); };
               const auto ends = [word](std::string_view one) { return word.ends_with(one); };
               const bool is_other = has_any(kOtherEnds, ends) || word == "PASS" || word == "PWD";
               return is_among(kSecretWords, word) || (is_long && is_among(kSecretBesideOthers, word)) ||
                      (!is_other && has_any(kSecretEnds, ends)) || (is_address && has_any(kServices, begins));
           });
}

}  // namespace launch
}  // namespace ddprun
