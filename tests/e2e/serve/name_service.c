/* A name service for nsswitch.conf(5), as for LDAP: it knows users that are in no file, by number and by several names. It does
 * not answer while the file that FARAWAY_SLOW names exists. */
#include <errno.h>
#include <nss.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum nss_status answer(struct passwd *entry, char *text, size_t len, const char *name, uid_t uid, int *error) {
    const char *slow = getenv("FARAWAY_SLOW");
    while (slow && access(slow, F_OK) == 0)
        usleep(10000);
    if (!name) {
        *error = ENOENT;
        return NSS_STATUS_NOTFOUND;
    }
    if (len < 64) {
        *error = ERANGE;
        return NSS_STATUS_TRYAGAIN;
    }
    strcpy(text, name);
    strcpy(text + 40, "/");
    char *nothing = text + 41;
    *entry = (struct passwd){text, nothing, uid, uid, nothing, text + 40, text + 40};
    return NSS_STATUS_SUCCESS;
}

enum nss_status _nss_faraway_getpwnam_r(const char *name, struct passwd *entry, char *text, size_t len, int *error) {
    int is_ada = !strcmp(name, "ada") || !strcmp(name, "ada@far.example");
    return answer(entry, text, len, is_ada ? "ada@far.example" : NULL, 70001, error);
}

enum nss_status _nss_faraway_getpwuid_r(uid_t uid, struct passwd *entry, char *text, size_t len, int *error) {
    const char *name = uid == 70001 ? "ada@far.example" : uid == 70002 ? "svc-render" : NULL;
    return answer(entry, text, len, name, uid, error);
}
